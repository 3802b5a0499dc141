package telemetry

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// tracesWanted reports whether the environment asks for spans by OTLP. An error says which variable asks for something that there is not.
func tracesWanted(getenv func(string) string) (bool, error) {
	name, endpoint := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if endpoint == "" {
		name, endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT", getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	}
	if endpoint == "" || strings.EqualFold(strings.TrimSpace(getenv("OTEL_SDK_DISABLED")), "true") {
		return false, nil
	}
	exporters := strings.FieldsFunc(getenv("OTEL_TRACES_EXPORTER"), func(r rune) bool { return r == ',' || r == ' ' })
	switch {
	case slices.Equal(exporters, []string{"none"}):
		return false, nil
	case len(exporters) > 0 && !slices.Contains(exporters, "otlp"):
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: leasehold exports spans by OTLP only; set it to otlp, or to none",
			getenv("OTEL_TRACES_EXPORTER"))
	}
	// As the SDK reads it, an endpoint that is no URL would be logged and replaced by localhost.
	if u, err := url.Parse(strings.TrimSpace(endpoint)); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false, fmt.Errorf("%s is not an http:// or https:// URL: set it to one such as http://localhost:4318", name)
	}
	protocol := strings.TrimSpace(cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf"))
	if protocol != "http/protobuf" && protocol != "http/json" {
		return false, fmt.Errorf("the OTLP protocol %q is not supported: set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf, "+
			"and the endpoint to the collector's port for HTTP, which is mostly 4318 where gRPC has 4317", protocol)
	}
	return true, nil
}

// queueSize returns how many spans may wait for their export.
func queueSize(getenv func(string) string) int {
	if n, err := strconv.Atoi(strings.TrimSpace(getenv("OTEL_BSP_MAX_QUEUE_SIZE"))); err == nil && n > 0 {
		return n
	}
	return spanQueue
}

func randomTrace() (id trace.TraceID) {
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	id[0] |= 1 // it is never zero
	return id
}

func randomSpan() (id trace.SpanID) {
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	id[0] |= 1
	return id
}
