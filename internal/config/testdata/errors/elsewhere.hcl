name = "billing-1"

tasks "a" {
}

Agent {
}
