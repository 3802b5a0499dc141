# A worker: runs "hello" tasks, one after another. Each line of standard input is one attempt.
require "json"

$stdout.sync = true
REPLIES = IO.new(3, "w")
REPLIES.sync = true

def reply(line) = REPLIES.puts(JSON.generate(line))

def hello(data, task)
  puts "hello from task #{task["id"]}" # output is kept with the attempt
  { greeting: "hello" }
end

reply({ ready: true })
$stdin.each_line do |line|
  envelope = JSON.parse(line)
  task = envelope["task"]
  last = { id: task["id"], fence: task["fence"] } # the last line repeats them
  begin
    last[:result] = hello(envelope["data"], task)
  rescue StandardError => e
    puts e.full_message
    last[:error] = e.message # with retryable: false it is not tried again
  end
  reply(last)
end
