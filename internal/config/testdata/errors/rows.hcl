agent {
  name = "${task.id}"
}

task "a" {
  timeout = task.data.timeout
  webhook {
    url     = "http://127.0.0.1/${task.dta.x}"
    headers = { A = task, B = "${task.data}${task.payload}", C = "${task.labels}", D = upercase(task.id), "${task.id}" = "x" }
  }
}

task "b" {
  command {
    argv = [
      "echo",
      "${invoice.id}",
      "${data.items[0].name}",
      "${env(task.data.name)}",
      "${file(task.data.path)}",
      "${env("NOT_SET")}${task.id}",
      "${[for x in task.data.list : x]}",
      "%{for x in task.data.list}${x}%{endfor}",
      "${task.id + "x"}",
      "${task.id + true}",
      "${length(task.type)}",
      "${task.data.a ? "x" : ["y"]}",
      task,
      "${task.data.list[*].name}",
    ]
  }
}
