// A small application: it stores names, and has Leasehold run the greetings and the reports.
'use strict';

const crypto = require('node:crypto');
const http = require('node:http');
const { transaction, enqueue, createTables } = require('./db');

const secret = process.env.WEBHOOK_SECRET || 'whsec_YW4gZXhhbXBsZSwgYW5kIG5vdCBhIHNlY3JldA==';
const ids = (rows) => rows.map((row) => Number(row.id));

// Each name and its task are written in one transaction: all or nothing.
async function addGreetings({ names }) {
  const rows = await transaction(names.flatMap((name) => [
    ['INSERT INTO greeting (name) VALUES ($1)', name],
    enqueue('greeting.send', { name }),
  ]));
  return [201, { tasks: ids(rows) }];
}

async function addReport({ name }) {
  const rows = await transaction([
    ['INSERT INTO report (name) VALUES ($1)', name],
    enqueue('report.build', { name }),
  ]);
  return [201, { tasks: ids(rows) }];
}

// The callback. It may arrive more than once, so it changes only what is not done yet.
async function greet({ data: { name }, task }) {
  const rows = await transaction([
    ['UPDATE greeting SET greeted_by = $1 WHERE name = $2 AND greeted_by IS NULL', task.id, name],
    ['SELECT name FROM greeting WHERE name = $1', name],
  ]);
  if (rows.length === 0) return [422, { error: 'no such name' }]; // rejected: a retry would not help
  return [200, { greeting: `Hello, ${name}!` }];
}

// signed checks the signature (https://www.standardwebhooks.com).
function signed(headers, body) {
  const stamp = headers['webhook-timestamp'];
  if (!(Math.abs(Date.now() / 1000 - Number(stamp)) < 300)) return false;
  const mac = crypto.createHmac('sha256', Buffer.from(secret.replace(/^whsec_/, ''), 'base64'));
  const want = Buffer.from('v1,' + mac.update(`${headers['webhook-id']}.${stamp}.`).update(body).digest('base64'));
  return String(headers['webhook-signature']).split(' ').some((given) => {
    const got = Buffer.from(given);
    return got.length === want.length && crypto.timingSafeEqual(got, want);
  });
}

const routes = { '/greetings': addGreetings, '/reports': addReport, '/greet': greet };

async function answer(request, body) {
  const route = request.method === 'POST' && routes[request.url];
  if (!route) return [404, { error: 'no such place' }];
  if (route === greet && !signed(request.headers, body)) return [401, { error: 'the signature is not ours' }];
  try {
    return await route(JSON.parse(body));
  } catch (error) {
    return [error.taken ? 409 : 500, { error: error.message }]; // the transaction is already rolled back
  }
}

const server = http.createServer((request, response) => {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', async () => {
    const [status, content] = await answer(request, Buffer.concat(parts));
    response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(content));
  });
});

createTables().then(() => server.listen(Number(process.env.PORT || 8080), '127.0.0.1'));
