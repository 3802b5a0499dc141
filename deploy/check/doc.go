// Package check compares the manifests and the chart of deploy with what their readers publish: the schemas of Kubernetes, of the Prometheus
// operator, of KEDA and of Compose. It is a module of its own, so that Leasehold does not depend on what only this needs: test/deploy runs it.
package check
