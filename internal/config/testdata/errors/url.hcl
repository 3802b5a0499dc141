task "scheme" {
  webhook {
    url = "${task.data.scheme}://127.0.0.1/"
  }
}

task "host" {
  webhook {
    url = "http://${task.data.host}/"
  }
}

task "port" {
  webhook {
    url = "http://127.0.0.1:${task.data.port}/"
  }
}

task "user" {
  webhook {
    url = "http://${task.data.user}@127.0.0.1/"
  }
}

task "password" {
  webhook {
    url = "http://app:geheim@127.0.0.1/${task.id}"
  }
}

task "fragment" {
  webhook {
    url = "http://127.0.0.1/${task.id}#${task.id}"
  }
}

task "whole" {
  webhook {
    url = task.data.url
  }
}

task "made" {
  webhook {
    url = format("http://127.0.0.1/%s", task.id)
  }
}

task "otherscheme" {
  webhook {
    url = "ftp://127.0.0.1/"
  }
}

task "nohost" {
  webhook {
    url = "http:///path"
  }
}

task "blank" {
  webhook {
    url = "http://127.0.0.1/a b"
  }
}

task "escape" {
  webhook {
    url = "http://127.0.0.1/%zz/${task.id}"
  }
}

task "noscheme" {
  webhook {
    url = "localhost:8000/x"
  }
}

task "noschemeinrows" {
  webhook {
    url = "10.0.0.1/orders/${task.id}"
  }
}

task "noschemeuser" {
  webhook {
    url = "app@localhost/x"
  }
}

task "slashmissing" {
  webhook {
    url = "http:/path"
  }
}
