# The configuration of the agents in compose.yaml.

agent {
  listen    = "0.0.0.0:7070"
  advertise = "http://${env("HOSTNAME")}:7070" # the container's host name, which resolves in this network
}

store {
  url = env("DATABASE_URL")
}

task "hello" {
  webhook {
    url = "http://application/tasks/hello"
  }
}
