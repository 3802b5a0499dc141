// Keeps a page up to date while it is looked at, and gives it keys. Every page works without it.
(() => {
  'use strict';
  const main = document.getElementById('main');
  const button = document.getElementById('live');
  const label = button && button.querySelector('.label');
  const least = 2000; // ms between two reads
  const most = 15000; // ms without one
  let paused = sessionStorage.getItem('paused') === 'yes';
  let reading = false, wanted = false, last = Date.now(), source = null;

  // What became of a change stands in the address once: not after a reload.
  const here = new URL(location.href);
  if (here.searchParams.has('said')) {
    here.searchParams.delete('said');
    history.replaceState(null, '', here);
  }

  // match makes one node like another, and leaves alone what the user has opened, typed or chosen.
  function match(have, want) {
    if (have.nodeType !== want.nodeType || have.nodeName !== want.nodeName || have.id !== want.id) {
      have.replaceWith(want);
      return;
    }
    if (have.nodeType !== Node.ELEMENT_NODE) {
      if (have.nodeValue !== want.nodeValue) have.nodeValue = want.nodeValue;
      return;
    }
    if (have.isEqualNode(want)) return;
    const field = have.matches('input, select, textarea');
    for (const { name } of [...have.attributes]) {
      if (!want.hasAttribute(name) && name !== 'open' && !(name === 'class' && have.nodeName === 'TR')) have.removeAttribute(name);
    }
    for (const { name, value } of [...want.attributes]) {
      if (name !== 'open' && have.getAttribute(name) !== value && !(field && name === 'value')) have.setAttribute(name, value);
    }
    if (field) return;
    const kids = [...want.childNodes];
    kids.forEach((kid, i) => {
      const old = have.childNodes[i];
      if (old) match(old, kid); else have.append(kid);
    });
    while (have.childNodes.length > kids.length) have.lastChild.remove();
  }

  async function read() {
    if (paused || reading || document.hidden || Date.now() - last < least) { wanted = true; return; }
    reading = true;
    wanted = false;
    try {
      const answer = await fetch(here, { headers: { 'X-Leasehold-Part': 'main' }, redirect: 'error' });
      last = Date.now();
      show(answer.ok ? '' : 'lost');
      if (answer.ok && !paused) {
        const next = document.createElement('main');
        next.innerHTML = await answer.text();
        const kids = [...next.childNodes];
        kids.forEach((kid, i) => {
          const old = main.childNodes[i];
          if (old) match(old, kid); else main.append(kid);
        });
        while (main.childNodes.length > kids.length) main.lastChild.remove();
      }
    } catch {
      last = Date.now();
      show('lost');
    } finally {
      reading = false;
    }
  }

  function show(state) {
    if (!button) return;
    button.setAttribute('aria-pressed', String(paused));
    button.classList.toggle('lost', state === 'lost' && !paused);
    label.textContent = paused ? 'Paused' : state === 'lost' ? 'No answer' : 'Live';
  }

  function listen() {
    if (source) { source.close(); source = null; }
    if (paused || document.hidden) return;
    source = new EventSource(document.body.dataset.live);
    for (const event of ['counts', 'changed', 'task', 'gone']) source.addEventListener(event, read);
  }

  function pause(to) {
    paused = to;
    sessionStorage.setItem('paused', paused ? 'yes' : 'no');
    show('');
    listen();
    read();
  }

  if (button && document.body.dataset.live) {
    button.hidden = false;
    button.addEventListener('click', () => pause(!paused));
    document.addEventListener('visibilitychange', () => { listen(); read(); });
    show('');
    listen();
    setInterval(() => { if (wanted || Date.now() - last > most) read(); }, 500);
  }

  const places = { o: '/', t: '/tasks', b: '/batches', c: '/chunks', s: '/schedules', w: '/flow', f: '/failures', y: '/types', a: '/agents', u: '/audit', d: '/doctor' };
  let went = 0;
  function move(by) {
    const rows = [...main.querySelectorAll('.rows tbody tr')].filter((r) => r.querySelector('a'));
    if (!rows.length) return;
    const at = rows.findIndex((r) => r.contains(document.activeElement));
    const row = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
    row.querySelector('a').focus();
  }
  document.addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest('input, select, textarea, dialog')) return;
    if (Date.now() - went < 1200 && places[e.key]) { location.href = places[e.key]; return; }
    const keys = document.getElementById('keys');
    switch (e.key) {
      case 'g': went = Date.now(); return;
      case '?': keys.showModal(); break;
      case '/': { const s = document.getElementById('search'); if (s) { s.focus(); break; } return; }
      case 'j': move(1); break;
      case 'k': move(-1); break;
      case 'p': if (button && !button.hidden) { pause(!paused); break; } return;
      default: return;
    }
    e.preventDefault();
  });
})();
