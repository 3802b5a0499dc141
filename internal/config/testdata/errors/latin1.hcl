agent {
  name = "Müller"
}
