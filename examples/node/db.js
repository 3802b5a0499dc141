// The application's database, PostgreSQL or SQLite, which is also the agent's store.
'use strict';

const { execFile } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const url = process.env.DATABASE_URL || 'sqlite:leasehold.db';
const sqlite = url.startsWith('sqlite:');
const task = sqlite ? 'task' : 'leasehold.task';

// transaction runs statements, each [text, ...values], as one transaction, all or nothing. It resolves to
// all returned rows.
const transaction = sqlite ? onSqlite : onPostgres;

let pool;

async function onPostgres(statements) {
  pool ??= new (require('pg').Pool)({ connectionString: url, max: 4, idleTimeoutMillis: 100 });
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const rows = [];
    for (const [text, ...values] of statements) rows.push(...(await client.query(text, values)).rows);
    await client.query('COMMIT');
    return rows;
  } catch (error) {
    await client.query('ROLLBACK');
    error.taken = error.code === '23505';
    throw error;
  } finally {
    client.release();
  }
}

// Node before 22 does not include SQLite, so this runs the sqlite3 shell. The shell takes no parameters, so values are quoted
// into the text. With -bail a failure ends the shell, which rolls back the transaction.
function onSqlite(statements) {
  const quote = (value) => (typeof value === 'number' ? String(value) : `'${String(value).replaceAll("'", "''")}'`);
  const filled = statements.map(([text, ...values]) => text.replace(/\$(\d)/g, (_, n) => quote(values[n - 1])) + ';\n');
  const script = `.timeout 5000\n.mode json\nBEGIN IMMEDIATE;\n${filled.join('')}COMMIT;\n`;
  return new Promise((resolve, reject) => {
    const shell = execFile('sqlite3', ['-batch', '-bail', url.slice('sqlite:'.length)], (error, stdout, stderr) => {
      if (error) return reject(Object.assign(new Error(stderr.trim()), { taken: stderr.includes('UNIQUE') }));
      // One array for each statement that returns rows, in order.
      resolve(stdout.trim() === '' ? [] : JSON.parse(`[${stdout.replaceAll(/\]\s*\[/g, '],[')}]`).flat());
    });
    shell.stdin.end(script);
  });
}

// enqueue is the statement that adds a task to a transaction.
const enqueue = (type, payload) => [
  `INSERT INTO ${task} (type, payload) VALUES ($1, $2) RETURNING id`, type, JSON.stringify(payload),
];

function createTables() {
  const schema = fs.readFileSync(path.join(__dirname, '../schema.sql'), 'utf8');
  return transaction(schema.trim().split(';\n').map((statement) => [statement]));
}

module.exports = { transaction, enqueue, createTables };
