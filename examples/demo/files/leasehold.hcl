# The demo's tasks: callbacks to the shop (shop.go), and the scripts in this directory.

agent {
  listen = "127.0.0.1:0"
  drain  = "5s"

  presence = "5s" # a killed agent is considered dead after this time
}

task "order.confirm" {
  webhook {
    url    = "${env("SHOP_URL")}/tasks/confirm/${task.data.order}"
    secret = env("WEBHOOK_SECRET")
  }
}

task "invoice.send" {
  webhook {
    url    = "${env("SHOP_URL")}/tasks/invoice/${task.data.order}"
    secret = env("WEBHOOK_SECRET")
  }
}

task "card.charge" {
  webhook {
    url    = "${env("SHOP_URL")}/tasks/charge"
    secret = env("WEBHOOK_SECRET")
  }
}

task "parcel.book" {
  webhook {
    url    = "${env("SHOP_URL")}/tasks/parcel"
    secret = env("WEBHOOK_SECRET")
  }
}

task "label.print" {
  command {
    argv = ["sh", "label.sh", "${task.data.name}"]
  }
}

task "video.encode" {
  timeout = "2s"

  retry {
    limit = 0
  }

  command {
    argv       = ["sh", "encode.sh"]
    stop_grace = "1s"
  }
}

task "photos.scan" {
  timeout   = "10m"
  heartbeat = "1s" # the longest time between two pings

  retry {
    limit = 0
  }

  command {
    argv       = ["sh", "scan.sh"]
    stop_grace = "1s"
  }
}

task "book.import" {
  timeout   = "10m"
  heartbeat = "2s"

  command {
    argv = ["sh", "import.sh"]
  }
}
