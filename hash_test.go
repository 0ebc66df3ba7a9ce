package sluice_test

import (
	"context"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// Two controllers on one store are two processes on a shared one.
func TestKeySecret(t *testing.T) {
	policy := &sluice.Policy{Rules: []sluice.Rule{{
		ID: "r", GroupBy: []sluice.Dimension{sluice.Subject},
		Limits: []sluice.Limit{{Limit: limit.Window(1, limit.Hour)}},
	}}}
	books := memory.New(memory.Options{})
	controller := func(secret string) *sluice.Controller {
		o := sluice.Options{}
		if secret != "" {
			o.KeySecret = []byte(secret)
		}
		c, err := sluice.Open(policy, books, o)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	admitted := func(c *sluice.Controller) bool {
		_, err := c.Admit(context.Background(), sluice.Call{Subject: "user:alice"})
		return err == nil
	}
	if !admitted(controller("0123456789abcdef")) {
		t.Fatal("the first call was refused")
	}
	if admitted(controller("0123456789abcdef")) {
		t.Error("another process with the same secret has its own books")
	}
	if !admitted(controller("fedcba9876543210")) {
		t.Error("a process with another secret finds the first one's keys")
	}
	if !admitted(controller("")) {
		t.Error("a process without a secret finds the first one's keys")
	}
	_, err := sluice.Open(policy, books, sluice.Options{KeySecret: []byte("short")})
	if err == nil || !strings.Contains(err.Error(), "at least 16") {
		t.Errorf("a short secret: %v", err)
	}
}
