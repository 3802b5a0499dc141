// An endpoint that gets many tasks in one request. Each line of the response ends one task, and is sent when that has ended.
'use strict'
const http = require('node:http')

async function greet (data) {
  if (!data.name) throw Object.assign(new Error('name is missing'), { retryable: false })
  return { greeting: `Hello, ${data.name}!` }
}

http.createServer(async (request, response) => {
  const parts = []
  for await (const part of request) parts.push(part)
  const { data: { tasks } } = JSON.parse(Buffer.concat(parts))
  response.writeHead(200, { 'Content-Type': 'application/x-ndjson' })
  await Promise.all(tasks.map(async ({ data, task: { id } }) => { // at the same time, in any order
    const line = await greet(data).then(result => ({ id, result }), e => ({ id, error: e.message, retryable: e.retryable }))
    response.write(JSON.stringify(line) + '\n')
  }))
  response.end()
}).listen(process.env.PORT || 8080, '127.0.0.1')
