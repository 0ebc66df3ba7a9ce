// Package deploy_test checks what the examples of deployment promise.
package deploy_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

const (
	single   = "kubernetes/sluice.yaml"
	replicas = "kubernetes/replicas.yaml"
)

// manifest is what this test reads of a Kubernetes object.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Replicas     int
		MinAvailable int `yaml:"minAvailable"`
		Strategy     struct{ Type string }
		Template     struct {
			Metadata struct{ Annotations map[string]string }
			Spec     struct {
				TerminationGracePeriodSeconds float64 `yaml:"terminationGracePeriodSeconds"`
				Containers                    []struct {
					Env []struct {
						Name      string
						Value     string
						ValueFrom struct {
							SecretKeyRef struct{ Name string } `yaml:"secretKeyRef"`
						} `yaml:"valueFrom"`
					}
				}
			}
		}
	}
}

// load reads the objects of a file, by kind and name.
func load(t *testing.T, file string) map[string]manifest {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]manifest{}
	for in := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var m manifest
		if err := in.Decode(&m); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		objects[m.Kind+" "+m.Metadata.Name] = m
	}
}

// env is what a container finds in its environment, with a text for each secret.
func env(m manifest) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, e := range m.Spec.Template.Spec.Containers[0].Env {
			if e.Name == name && e.ValueFrom.SecretKeyRef.Name != "" {
				return "0123456789abcdef0123456789abcdef", true
			}
			if e.Name == name {
				return e.Value, true
			}
		}
		return "", false
	}
}

// configuration loads the sluice.yaml of a file, with the environment of its Deployment.
func configuration(t *testing.T, file string) *config.Config {
	t.Helper()
	objects := load(t, file)
	text := objects["ConfigMap sluice"].Data["sluice.yaml"]
	c, problems := config.Load([]string{"sluice.yaml"}, config.Options{
		Strict:   true,
		ReadFile: func(string) ([]byte, error) { return []byte(text), nil },
		Env:      env(objects["Deployment sluice"]),
	})
	for _, p := range problems {
		t.Errorf("%s: %v", file, p)
	}
	if c == nil {
		t.FailNow()
	}
	return c
}

func TestKubernetesChecksums(t *testing.T) {
	for _, c := range []struct{ file, workload, config, key string }{
		{single, "Deployment sluice", "ConfigMap sluice", "sluice.yaml"},
		{replicas, "Deployment sluice", "ConfigMap sluice", "sluice.yaml"},
		{replicas, "StatefulSet sluice-redis", "ConfigMap sluice-redis", "redis.conf"},
	} {
		objects := load(t, c.file)
		sum := sha256.Sum256([]byte(objects[c.config].Data[c.key]))
		want := hex.EncodeToString(sum[:])
		if got := objects[c.workload].Spec.Template.Metadata.Annotations["checksum/config"]; got != want {
			t.Errorf("%s: checksum/config of the %s is %q; %s above it has %s", c.file, c.workload, got, c.key, want)
		}
	}
}

// A pod that is not given the time that the configuration promises is killed.
func TestKubernetesGivesTimeToStop(t *testing.T) {
	const closing = 4 // seconds, to bring to a store what is to be given back
	for _, file := range []string{single, replicas} {
		s := configuration(t, file).Shutdown
		least := (s.Delay + s.Grace).Seconds() + closing
		if got := load(t, file)["Deployment sluice"].Spec.Template.Spec.TerminationGracePeriodSeconds; got < least {
			t.Errorf("%s: a pod is killed after %v s; stopping takes up to %v s", file, got, least)
		}
	}
}

// The in-memory store belongs to one process: a second one would double every limit.
func TestKubernetesRunsOneReplicaAtATime(t *testing.T) {
	d := load(t, single)["Deployment sluice"].Spec
	if d.Replicas != 1 || d.Strategy.Type != "Recreate" || configuration(t, single).Store.Backend != "in-memory" {
		t.Errorf("%s: %d replicas, strategy %q; want 1 and Recreate", single, d.Replicas, d.Strategy.Type)
	}
}

func TestKubernetesReplicas(t *testing.T) {
	objects := load(t, replicas)
	store := configuration(t, replicas).Store
	n := objects["Deployment sluice"].Spec.Replicas
	t.Run("B-55 they share a store and know how many they are", func(t *testing.T) {
		if n < 2 || store.Backend != "redis" || *store.Redis.Processes != int64(n) {
			t.Errorf("%d replicas, backend %s, processes %d", n, store.Backend, *store.Redis.Processes)
		}
		if budget := objects["PodDisruptionBudget sluice"].Spec.MinAvailable; budget < 1 || budget >= n {
			t.Errorf("a budget of %d of %d replicas", budget, n)
		}
	})
	t.Run("the key secret and the password are from a Secret", func(t *testing.T) {
		for _, e := range objects["Deployment sluice"].Spec.Template.Spec.Containers[0].Env {
			if secret := e.ValueFrom.SecretKeyRef.Name != ""; !secret && !strings.Contains(e.Value, "$(SLUICE_REDIS_PASSWORD)") {
				t.Errorf("%s stands in the manifest", e.Name)
			}
		}
	})
	t.Run("a Redis takes its redis.conf, and forgets nothing for want of memory", func(t *testing.T) {
		server := redistest.Start(t, options(objects["ConfigMap sluice-redis"].Data["redis.conf"])...)
		info := server.Info("memory") + server.Info("persistence")
		for _, want := range []string{"maxmemory_policy:noeviction", "maxmemory:209715200", "aof_enabled:1"} {
			if !strings.Contains(info, want+"\r\n") {
				t.Errorf("it does not say %s", want)
			}
		}
	})
}

// options are the lines of a redis.conf as arguments.
func options(conf string) (args []string) {
	for line := range strings.Lines(conf) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		args = append(args, "--"+words[0])
		for _, word := range words[1:] {
			args = append(args, strings.Trim(word, `"`))
		}
	}
	return args
}
