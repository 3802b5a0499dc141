# The configuration of the agent on this machine. What else there is: https://github.com/leasehold/leasehold/blob/main/docs/configuration.md
#
#   leasehold validate leasehold.hcl      reports all mistakes at once
#   systemctl enable --now leasehold      starts it, now and with the machine

store {
  # env() reads /etc/leasehold/environment under systemd. Or a file: url = "sqlite:/var/lib/leasehold/leasehold.db"
  url = env("DATABASE_URL")
}

# Declare at least one type of task.
#
# task "invoice.send" {
#   timeout = "30s"
#   webhook {
#     url = "http://127.0.0.1:8080/invoices/${task.data.invoice}/send"
#   }
# }
