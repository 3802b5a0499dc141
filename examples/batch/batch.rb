# An endpoint that gets many tasks in one request. Each line of the response ends one task, and is sent when that has ended.
require "json"
require "socket"

def greet(data) = { greeting: "Hello, #{data.fetch("name")}!" }

def serve(connection)
  while connection.gets # the request line
    length = 0
    while (header = connection.gets.chomp) != ""
      length = header.split(":")[1].to_i if header.downcase.start_with?("content-length:")
    end
    tasks = JSON.parse(connection.read(length))["data"]["tasks"]
    connection.write("HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")
    tasks.each do |element|
      line = { id: element["task"]["id"] }
      begin
        line[:result] = greet(element["data"])
      rescue KeyError => e
        line.update(error: e.message, retryable: false)
      end
      text = "#{JSON.generate(line)}\n"
      connection.write("#{text.bytesize.to_s(16)}\r\n#{text}\r\n") # a chunk for each line
    end
    connection.write("0\r\n\r\n")
  end
end

server = TCPServer.new("127.0.0.1", ENV.fetch("PORT", "8080"))
loop { Thread.new(server.accept) { |connection| serve(connection) } }
