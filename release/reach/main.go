// Command reach fails unless a URL can be read, within 20 s and by the proxy of the environment: curl may not be there.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := reach(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const limit = 20 * time.Second

func reach(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, url, http.NoBody) //nolint:gosec // the caller names it
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Timeout: limit}).Do(req) //nolint:gosec // the caller names it
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}
