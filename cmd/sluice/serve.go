package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func newServe(s streams) *cobra.Command {
	p := program{streams: s}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Stand in front of servers and put limits on who calls them",
		Long: `Serves what the configuration says, until SIGTERM or SIGINT. Then readiness goes, the
listeners close, requests that run end in their time, and the exit code is 0. A second
signal ends it at once.

Without --config it serves the built-in configuration: the limits of a small public API
in front of a demo that answers every request.

Limits change without a restart: after a SIGHUP, when a file changes, or with
POST /actuator/reload at the administration. Counters stay. A configuration with errors
changes nothing.`,
		Example: `  sluice serve
  sluice serve --set listen.gate=127.0.0.1:18080
  sluice serve --config base.yaml --config production.yaml`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.Run(cmd.Context()) },
	}
	p.flags(cmd.Flags())
	return cmd
}

// hangups returns a channel of hangup signals, which ask for a reload.
func hangups() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// announce says what listens where and what to try: to people in plain lines, to
// machines in the log.
func (p *program) announce() {
	c := p.config.Load()
	rules := len(c.Policy().Rules)
	if c.Observability.LogFormat == "json" {
		for _, f := range p.fronts {
			if f.listener != nil {
				p.log.Info("listening", "surface", f.name, "address", f.listener.Addr().String())
			}
		}
		p.log.Info("serving", "version", thisBuild().Version, "configuration", p.source.String(), "hash", c.Hash(), "rules", rules)
		return
	}
	fmt.Fprintf(p.out, "sluice %s serves %s: %s.\n\n", thisBuild().Version, &p.source, count(rules, "rule"))
	var t table
	urls := map[string]string{}
	for _, f := range p.fronts {
		if f.listener == nil {
			continue
		}
		urls[f.name] = urlOf(f.listener, f.name == "gate" && c.TLS.CertFile != "")
		t.row(f.name, urls[f.name], f.purpose(c))
	}
	_ = t.write(p.out, "  ") // people who cannot be told are no reason not to serve
	fmt.Fprint(p.out, p.tries(urls))
}

// tries are commands for a terminal.
func (p *program) tries(urls map[string]string) string {
	gate, mcp, admin := urls["gate"], urls["mcp"], urls["admin"]
	text := ""
	if gate != "" {
		gate = curlTo(gate)
		text += fmt.Sprintf("  curl -i %s/\n", gate)
		if len(p.files) == 0 {
			text += fmt.Sprintf("  for i in {1..25}; do curl -so /dev/null -w '%%{http_code} ' %s/; done\n", gate)
		}
	}
	if mcp != "" {
		text += fmt.Sprintf("  npx @modelcontextprotocol/inspector@2 --cli %s/_all/mcp --transport http --method tools/list\n", mcp)
	}
	if admin != "" && gate != "" {
		text += fmt.Sprintf("  sluice explain / --addr %s\n", admin)
	}
	if admin != "" && mcp != "" {
		text += fmt.Sprintf("  sluice release --addr %s    # which calls hold slots\n", admin)
	}
	if len(p.files) > 0 {
		text += fmt.Sprintf("  kill -HUP %d    # take over changed files; happens by itself too\n", os.Getpid())
	}
	return "\nTry:\n" + text + "\nCtrl-C stops it.\n"
}

// curlTo is a URL as curl takes it, which has a flag for sockets.
func curlTo(url string) string {
	if path, ok := strings.CutPrefix(url, "unix:"); ok {
		return "--unix-socket " + path + " http://localhost"
	}
	return url
}
