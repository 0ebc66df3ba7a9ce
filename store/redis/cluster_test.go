package redis_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/store/redis"
	"github.com/sluicegate/sluice/store/redis/redistest"
	"github.com/sluicegate/sluice/store/storetest"
)

func TestCluster(t *testing.T) {
	group := redistest.Cluster(t)
	t.Run("contract", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) sluice.Store {
			group.Flush()
			return open(t, redis.Options{URI: group.URI(), Wait: time.Second})
		})
	})
}
