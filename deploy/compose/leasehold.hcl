# The configuration of the agents in ../compose.yaml, and of the observer, which has WORKERS=0.

agent {
  listen    = "0.0.0.0:7070"
  advertise = "http://${env("HOSTNAME")}:7070" # the container's host name, which resolves in this network
  workers   = tonumber(env("WORKERS", "32"))
  token     = env("LEASEHOLD_TOKEN")
}

store {
  url = env("DATABASE_URL")
}

task "greeting.send" {
  timeout = "10s"

  webhook {
    url    = "${env("APPLICATION_URL")}/greet"
    secret = env("WEBHOOK_SECRET")
  }
}
