// A long task behind HTTP: the handler responds with 202 at once, and sends the letters afterwards. Each request to the ping URL
// is a ping with a checkpoint. The next attempt receives the last checkpoint, and resumes after that letter. For checking that
// a request comes from the agent, see the signature in ../node/app.js.
'use strict';

const fs = require('node:fs/promises');
const http = require('node:http');
const { setTimeout: sleep } = require('node:timers/promises');

async function letters({ data: { letters: total }, task }) {
  const start = task.checkpoint ?? 0;
  for (let n = start + 1; n <= total; n++) {
    await sleep(50); // the time that the printer takes
    await fs.appendFile(process.env.OUTBOX ?? 'outbox.txt', `letter ${n}, attempt ${task.attempt}\n`);
    const answer = await post(task.ping_url, { progress: { done: n, total }, checkpoint: n });
    if (answer.status === 410) return; // the lease was lost
    if ((await answer.json()).cancel) return post(`${task.ping_url}/fail`, { error: `stopped after ${n} letters` });
  }
  return post(`${task.ping_url}/complete`, { result: { letters: total, after: start } });
}

// post repeats the request until an agent responds: agents may be replaced in the meantime.
async function post(url, body) {
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
