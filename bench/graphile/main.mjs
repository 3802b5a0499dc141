// graphile-worker (https://worker.graphile.org), tuned for throughput as its documentation says: local queue and
// batched completion. It speaks the protocol of bench/work: a job in, a result out, a line of JSON each.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { createInterface } from 'node:readline';
import { Logger, run, runMigrations } from 'graphile-worker';
import pg from 'pg';

const connections = 10;
const taskType = 'bench';
const payload = { n: 1 };

const silent = new Logger(() => (level, message) => {
  if (level === 'error') console.error(message);
});

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

// How many rows at once, by kind of work, where the job does not say.
const workers = (job) => job.workers || { noop: 24, http: 250, exec: 64 }[job.kind] || 24;

// preset is the same for all work but what has to be quick when idle: that waits for no batch.
function preset(job) {
  const idle = job.kind === 'latency' || job.kind === 'idle';
  const n = workers(job);
  return {
    worker: {
      connectionString: job.url,
      concurrentJobs: n,
      maxPoolSize: connections,
      pollInterval: 1000,
      localQueue: idle ? undefined : { size: Math.max(n + 1, 5000) },
      completeJobBatchDelay: idle ? -1 : 0,
      failJobBatchDelay: 0,
      logger: silent,
    },
  };
}

async function setup(job) {
  await runMigrations({ preset: preset(job) });
  const client = new pg.Client(job.url);
  await client.connect();
  if (job.rows > 0) {
    // In one statement for all, through the function that applications use for many.
    await client.query(
      `SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
         SELECT ($1, $2::json, NULL, NULL, NULL, NULL, NULL, NULL)::graphile_worker.job_spec FROM generate_series(1, $3::integer)))`,
      [taskType, JSON.stringify(payload), job.rows],
    );
  }
  await client.query('VACUUM ANALYZE graphile_worker._private_jobs');
  await client.end();
}

// body is what work.Body writes.
function body(id, data) {
  const now = Date.now();
  const stamp = (at) => `${new Date(at).toISOString().slice(0, -1)}000Z`;
  return `{"type":"${taskType}","timestamp":"${stamp(now)}","data":${JSON.stringify(data).replace(':', ': ')},"task":{"id":${id},"phase":"run","attempt":1,"max_attempts":3,"fence":1,"deadline":"${stamp(now + 20000)}","remaining_s":20.000,"key":null,"region":null,"labels":{},"checkpoint":null,"previous":null}}`;
}

function poster(job) {
  const target = new URL(job.target);
  const agent = new http.Agent({ keepAlive: true, maxSockets: workers(job), scheduling: 'lifo' });
  return (text) =>
    new Promise((resolve, reject) => {
      const request = http.request(
        {
          agent,
          host: target.hostname,
          port: target.port,
          path: target.pathname,
          method: 'POST',
          headers: { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) },
        },
        (response) => {
          response.on('end', () =>
            response.statusCode < 300 ? resolve() : reject(new Error(`post: ${response.statusCode}`)),
          );
          response.on('error', reject);
          response.resume();
        },
      );
      request.on('error', reject);
      request.end(text);
    });
}

const runProgram = () =>
  new Promise((resolve, reject) => {
    const child = spawn('/bin/true', { stdio: 'ignore' });
    child.on('error', reject);
    child.on('exit', (code) => (code === 0 ? resolve() : reject(new Error(`exit ${code}`))));
  });

const microseconds = () => Math.round((performance.timeOrigin + performance.now()) * 1000);

// worker gives the function that does the work of a row, and a promise that is kept once all rows were worked on.
function worker(job, latencies) {
  let done = 0;
  let enough;
  const all = new Promise((resolve) => {
    enough = resolve;
  });
  const count = () => {
    done += 1;
    if (done === job.rows) enough();
  };
  const post = job.kind === 'http' ? poster(job) : undefined;
  const work = {
    noop: () => count(),
    idle: () => count(),
    http: async (data, helpers) => {
      await post(body(helpers.job.id, data));
      count();
    },
    exec: async () => {
      await runProgram();
      count();
    },
    latency: (data) => {
      latencies.push(microseconds() - data.at);
      count();
    },
  }[job.kind];
  return { work, all };
}

// used is what this process has used: seconds of CPU of its own and of the processes it waited for, bytes of memory.
function used() {
  const { user, system } = process.cpuUsage();
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ');
  const peak = /VmHWM:\s*(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8'));
  return {
    self: (user + system) / 1e6,
    children: (Number(fields[13]) + Number(fields[14])) / 100,
    rss: Number(peak[1]) * 1024,
  };
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function measure(job, receive) {
  const look = new pg.Client(job.url);
  await look.connect();
  const latencies = [];
  const { work, all } = worker(job, latencies);
  say({ ready: true });
  await receive();
  const before = used();
  const start = performance.now();
  const runner = await run({ preset: preset(job), noHandleSignals: true, taskList: { [taskType]: work }, parsedCronItems: [] });
  if (job.kind === 'idle') {
    await receive(); // nothing more: its input has ended
  } else {
    await all;
    for (;;) {
      const { rows } = await look.query('SELECT EXISTS (SELECT FROM graphile_worker._private_jobs) AS left');
      if (!rows[0].left) break;
      await pause(2);
    }
  }
  const seconds = (performance.now() - start) / 1000;
  const after = used();
  await runner.stop();
  await look.end();
  const { version } = JSON.parse(readFileSync(new URL('./node_modules/graphile-worker/package.json', import.meta.url), 'utf8'));
  return {
    seconds,
    self_cpu: after.self - before.self,
    child_cpu: after.children - before.children,
    rss: after.rss,
    latencies,
    version: `${version} on Node ${process.version}`,
  };
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const job = JSON.parse((await lines.next()).value);
if (job.step === 'setup') {
  await setup(job);
  say({ result: {} });
} else {
  say({ result: await measure(job, () => lines.next()) });
}
process.exit(0);
