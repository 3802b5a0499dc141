// A worker: runs "hello" tasks, one after another. Each line of standard input is one attempt.
const fs = require("node:fs");
const readline = require("node:readline");

const reply = (line) => fs.writeSync(3, JSON.stringify(line) + "\n");

async function hello(data, task) {
  console.log("hello from task", task.id); // output is kept with the attempt
  return { greeting: "hello" };
}

async function main() {
  reply({ ready: true });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { data, task } = JSON.parse(line);
    const end = { id: task.id, fence: task.fence }; // the last line repeats them
    try {
      end.result = (await hello(data, task)) ?? null; // undefined would not be written
    } catch (e) {
      console.error(e);
      end.error = String(e); // with retryable: false it is not tried again
    }
    reply(end);
  }
}

main();
