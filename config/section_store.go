package config

import "time"

// RedisStore is the store of many replicas.
type RedisStore struct {
	// The server, or any node of a Cluster: redis://host:port/database, rediss:// with TLS,
	// unix:///path; ?master_set=NAME asks a Sentinel for the master.
	URI Secret `key:"uri" secret:"may" default:"redis://localhost:6379/0"`
	// What keys of counters are made with, at least 16 random bytes, the same in every
	// replica. `sluice key secret` makes one.
	KeySecret Secret `key:"keySecret" secret:"only"`
	// The beginning of every key, so that several books fit in one database.
	Prefix string `key:"prefix" default:"sluice:"`
	// How long a decision waits for the server. Then the rule's onStoreError decides.
	Wait time.Duration `key:"wait" default:"20ms" min:"1ms"`
	// How long a call with an ID is remembered after its end.
	Retention time.Duration `key:"retention" default:"1h" min:"1s"`
	// How long nothing may be heard of a process until the slots of its calls are given back.
	// Requests that a replica carried when it was killed come back after that.
	Silence time.Duration `key:"silence" default:"30s" min:"3s"`
	// Whether a call that the server has just refused is refused again without asking it,
	// for a quarter of a second at most and only while nothing has come back.
	RepeatRefusals bool `key:"repeatRefusals" default:"true"`
	// How many processes use the store. Rules with onStoreError: local need it: while the
	// store fails each process goes on with that part of their limits.
	Processes *int64 `key:"processes" min:"1" max:"10000"`
	// Certificates for rediss://. Absent is what the system trusts.
	TLS *ClientTLS `key:"tls"`
}

// HazelcastStore is the store of many replicas where Hazelcast is already run.
type HazelcastStore struct {
	// Members of the cluster, as host:port; the others are found by themselves.
	Addresses []string `key:"addresses" required:"true"`
	// The cluster's name.
	Cluster string `key:"cluster" default:"dev"`
	// Who sluice is to a cluster that asks.
	User string `key:"user"`
	// The user's password.
	Password Secret `key:"password" secret:"only"`
	// What keys of counters are made with, at least 16 random bytes, the same in every
	// replica. `sluice key secret` makes one.
	KeySecret Secret `key:"keySecret" secret:"only"`
	// The map that keeps the books.
	Map string `key:"map" default:"sluice"`
	// How long a decision waits for the cluster. Then the rule's onStoreError decides.
	Wait time.Duration `key:"wait" default:"50ms" min:"1ms"`
	// How long a call with an ID is remembered after its end.
	Retention time.Duration `key:"retention" default:"1h" min:"1s"`
	// How many processes use the store, as for Redis.
	Processes *int64 `key:"processes" min:"1" max:"10000"`
	// Certificates. Absent speaks no TLS; {} trusts what the system does.
	TLS *ClientTLS `key:"tls"`
}

// ClientTLS are the certificates with which sluice speaks to a store. They are read at the
// start.
type ClientTLS struct {
	// The authorities that the server's certificate may be from, PEM. Absent is the system's.
	CAFile string `key:"caFile" alias:"ca" format:"path"`
	// The certificate that sluice shows, PEM.
	CertFile string `key:"certFile" alias:"cert" format:"path"`
	// Its private key, PEM.
	KeyFile string `key:"keyFile" alias:"key" format:"path"`
	// The name that the server's certificate must have. Absent is the host that is asked.
	ServerName string `key:"serverName"`
}
