package bench

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/gubernator-io/gubernator/v2"
	"github.com/sirupsen/logrus"
	"github.com/sluicegate/sluice/store/redis/redistest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// freeAddr is an address of this machine on which nobody listens.
func freeAddr() string {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	return l.Addr().String()
}

func init() {
	// gubernator's daemon runs in this process and is asked over gRPC. It keeps the
	// books in its own memory.
	enter(contestant{
		name:      "gubernator",
		elsewhere: true,
		remote: func(tb testing.TB, _ *redistest.Server, q quota) worker {
			ctx, log, addr := context.Background(), logrus.New(), freeAddr()
			log.SetOutput(io.Discard)
			daemon := must(gubernator.SpawnDaemon(ctx, gubernator.DaemonConfig{
				GRPCListenAddress: addr, AdvertiseAddress: addr, HTTPListenAddress: freeAddr(),
				PeerDiscoveryType: "none", CacheSize: 200_000, Logger: log,
			}))
			tb.Cleanup(daemon.Close)
			daemon.SetPeers([]gubernator.PeerInfo{{GRPCAddress: addr, IsOwner: true}})
			conn := must(grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials())))
			tb.Cleanup(func() { conn.Close() })
			client := gubernator.NewV1Client(conn)
			return shared(func(key string) bool {
				r, err := client.GetRateLimits(ctx, &gubernator.GetRateLimitsReq{Requests: []*gubernator.RateLimitReq{{
					Name: "bench", UniqueKey: key, Hits: 1,
					Limit: q.burst, Duration: time.Hour.Milliseconds(), Algorithm: gubernator.Algorithm_TOKEN_BUCKET,
				}}})
				return err == nil && r.Responses[0].Error == "" && r.Responses[0].Status == gubernator.Status_UNDER_LIMIT
			})
		},
	})
}
