task "video.resize" {
  aliases   = ["resize"]
  on_failed = "video.resize"
  webhook {
    url = "http://127.0.0.1:8080/"
  }
}
task "video.cut" {
  aliases   = ["cut"]
  on_failed = "cut"
  webhook {
    url = "http://127.0.0.1:8080/"
  }
}
task "video.join" {
  on_failed = "no name"
  webhook {
    url = "http://127.0.0.1:8080/"
  }
}
task "video.show" {
  on_failed = task.data.dead
  webhook {
    url = "http://127.0.0.1:8080/"
  }
}
