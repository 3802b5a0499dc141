// A long task behind HTTP: the request is answered with 202 at once, and the letters go out one after the other. A request
// to the ping URL is a sign of life; the checkpoint in it comes back with the next attempt, which begins after the last
// letter that was noted. Which attempts are the agent's: see the signature in ../node/app.js.
'use strict';

const fs = require('node:fs/promises');
const http = require('node:http');
const { setTimeout: sleep } = require('node:timers/promises');

async function letters({ data: { letters: total }, task }) {
  const start = task.checkpoint ?? 0;
  for (let n = start + 1; n <= total; n++) {
    await sleep(50); // so long takes the printer
    await fs.appendFile(process.env.OUTBOX ?? 'outbox.txt', `letter ${n}, attempt ${task.attempt}\n`);
    const answer = await tell(task.ping_url, { progress: { done: n, total }, checkpoint: n });
    if (answer.status === 410) return; // somebody else's by now
    if ((await answer.json()).cancel) return tell(`${task.ping_url}/fail`, { error: `stopped after ${n} letters` });
  }
  return tell(`${task.ping_url}/complete`, { result: { letters: total, after: start } });
}

// tell repeats itself until it is heard: an agent may be replaced meanwhile.
async function tell(url, body) {
  for (;; await sleep(500)) {
    const answer = await fetch(url, { method: 'POST', body: JSON.stringify(body) }).catch(() => ({ status: 503 }));
    if (answer.status !== 503) return answer;
  }
}

http.createServer(async (request, response) => {
  const envelope = JSON.parse(Buffer.concat(await request.toArray()));
  response.writeHead(202).end();
  await letters(envelope);
}).listen(Number(process.env.PORT ?? 8081), '127.0.0.1');
