package main

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/sluicegate/sluice/mcp/provider"
)

// lan is where this provider may ask, whoever wants more.
var lan = netip.MustParsePrefix("192.0.2.0/24")

// hosts are those that there are.
var hosts = map[netip.Addr]string{
	netip.MustParseAddr("192.0.2.1"):  "router",
	netip.MustParseAddr("192.0.2.9"):  "printer",
	netip.MustParseAddr("192.0.2.80"): "camera",
}

// probe is the operation that budgets are for. Where the network is real it sends a packet.
func probe(_ context.Context, host netip.Addr) (name string) { return hosts[host] }

// scan is the tool. It ends early when the budget is used up, and says how far it came.
func scan(ctx context.Context, q *provider.Request) (*provider.Result, error) {
	var arguments struct{ CIDR netip.Prefix }
	if err := q.Bind(&arguments); err != nil {
		return nil, err
	}
	part := arguments.CIDR.Masked()
	if !lan.Contains(part.Addr()) || part.Bits() < lan.Bits() {
		return nil, fmt.Errorf("cidr has to be a part of %s", lan)
	}
	asked, found := 0, ""
	for host := part.Addr(); part.Contains(host); host = host.Next() {
		err := budgeted(ctx, q, func(ctx context.Context) {
			asked++
			if name := probe(ctx, host); name != "" {
				found += fmt.Sprintf("\n%s is a %s.", host, name)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("stopped after %d addresses: %w%s", asked, err, found)
		}
	}
	return provider.Text(fmt.Sprintf("Asked %d addresses.%s", asked, found)), nil
}

// budgeted reserves one operation on behalf of whoever calls, does it, and settles.
func budgeted(ctx context.Context, q *provider.Request, do func(context.Context)) error {
	caller, _ := q.Caller()
	query := provider.Query{Caller: caller, Capability: active, Resource: lan.String(), Path: lanPath, Unit: operation, Quantity: 1}
	return provider.FromContext(ctx).WithBudget(ctx, query, func(ctx context.Context, _ *provider.Grant) error {
		do(ctx)
		return nil
	})
}
