//go:build unix

package main

import (
	"bufio"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

// serveKafka plays the broker of a configuration, which is the last argument.
func serveKafka(args []string) int {
	config, err := os.Open(args[len(args)-1])
	if err != nil {
		return fail(err)
	}
	defer config.Close()
	for lines := bufio.NewScanner(config); lines.Scan(); {
		addr, found := strings.CutPrefix(lines.Text(), "advertised.listeners=CLIENT://")
		if !found {
			continue
		}
		parsed, err := url.Parse("//" + addr)
		if err != nil {
			return fail(err)
		}
		port, err := strconv.Atoi(parsed.Port())
		if err != nil {
			return fail(err)
		}
		if _, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port)); err != nil {
			return fail(err)
		}
		select {}
	}
	return fail(fmt.Errorf("no advertised.listeners in %s", config.Name()))
}
