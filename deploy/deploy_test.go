// Package deploy_test checks what the examples of deployment promise.
package deploy_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/sluicegate/sluice/config"
)

const manifests = "kubernetes/sluice.yaml"

// manifest is what this test reads of a Kubernetes object.
type manifest struct {
	Kind string
	Data map[string]string
	Spec struct {
		Replicas int
		Strategy struct{ Type string }
		Template struct {
			Metadata struct{ Annotations map[string]string }
		}
	}
}

func load(t *testing.T) map[string]manifest {
	t.Helper()
	text, err := os.ReadFile(manifests)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]manifest{}
	for in := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var m manifest
		if err := in.Decode(&m); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatalf("%s: %v", manifests, err)
		}
		objects[m.Kind] = m
	}
}

func TestKubernetesChecksum(t *testing.T) {
	objects := load(t)
	sum := sha256.Sum256([]byte(objects["ConfigMap"].Data["sluice.yaml"]))
	want := hex.EncodeToString(sum[:])
	if got := objects["Deployment"].Spec.Template.Metadata.Annotations["checksum/config"]; got != want {
		t.Errorf("%s: checksum/config is %q; sluice.yaml above it has %s", manifests, got, want)
	}
}

func TestKubernetesConfiguration(t *testing.T) {
	text := load(t)["ConfigMap"].Data["sluice.yaml"]
	_, problems := config.Load([]string{"sluice.yaml"}, config.Options{
		Strict:   true,
		ReadFile: func(string) ([]byte, error) { return []byte(text), nil },
		Env:      func(string) (string, bool) { return "0123456789abcdef0123456789abcdef", true },
	})
	for _, p := range problems {
		t.Errorf("%s: %v", manifests, p)
	}
}

// The in-memory store belongs to one process: a second one would double every limit.
func TestKubernetesRunsOneReplicaAtATime(t *testing.T) {
	d := load(t)["Deployment"].Spec
	if d.Replicas != 1 || d.Strategy.Type != "Recreate" {
		t.Errorf("%s: %d replicas, strategy %q; want 1 and Recreate", manifests, d.Replicas, d.Strategy.Type)
	}
}
