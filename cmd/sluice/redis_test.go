package main

import (
	"bufio"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluicegate/sluice/store/redis/redistest"
)

// TestRedisScripts runs the command with a Redis server of each script's own. Beside what
// other scripts find there is the server's address in REDIS, and
//
//	redis stop|continue|kill|run|flush   freezes or ends the server, and takes it back
func TestRedisScripts(t *testing.T) {
	var servers sync.Map // *redistest.Server by address; scripts run side by side
	p := scripts(t, "testdata/redis")
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		server := redistest.Start(t)
		servers.Store(server.Addr, server)
		env.Setenv("REDIS", server.Addr)
		env.Setenv("LOCKED", redistest.Start(t, "--requirepass", "right").Addr)
		env.Setenv("CLUSTER", redistest.Start(t, "--cluster-enabled", "yes").Addr)
		env.Setenv("OLD", oldServer(t))
		env.Setenv("STORE_SECRET", "0123456789abcdefghijklmnopqrstuv")
		return setup(env)
	}
	p.Cmds["redis"] = func(ts *testscript.TestScript, neg bool, args []string) {
		found, _ := servers.Load(ts.Getenv("REDIS"))
		server := found.(*redistest.Server)
		do, ok := map[string]func(){
			"stop": server.Stop, "continue": server.Continue, "kill": server.Kill, "run": server.Run, "flush": server.Flush,
		}[args[0]]
		if neg || !ok {
			ts.Fatalf("usage: redis stop|continue|kill|run|flush")
		}
		do()
	}
	testscript.Run(t, p)
}

// oldServer says to every command what Redis 5 says to the first that a client sends.
func oldServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for in := bufio.NewScanner(conn); in.Scan(); {
					if line := in.Text(); line[0] == '*' {
						fmt.Fprint(conn, "-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n")
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}
