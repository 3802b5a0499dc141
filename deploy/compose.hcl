# The configuration of the agents of compose.yaml.

agent {
  listen    = "0.0.0.0:7070"
  advertise = "http://${env("HOSTNAME")}:7070" # the container's name, which the others of the network know
}

store {
  url = env("DATABASE_URL")
}

task "hello" {
  webhook {
    url = "http://application/tasks/hello"
  }
}
