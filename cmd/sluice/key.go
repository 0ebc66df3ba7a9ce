package main

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/identity"
)

func newKey(s streams) *cobra.Command {
	key := &cobra.Command{
		Use:   "key",
		Short: "Make API keys, and the secrets that keys are made with",
		Args:  none,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	key.AddCommand(newKeyNew(s), newKeySecret(s))
	return key
}

func newKeySecret(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "secret",
		Short: "Make a secret, such as a shared store's keySecret",
		Long: `Prints a secret of 256 random bits, for keySecret of a store or secret of a key file.
Replicas that share a store need the same one. Another secret makes other keys: every
counter begins anew.`,
		Example: `  (umask 077; sluice key secret > store-secret)   # then: keySecret: "file:store-secret"`,
		Args:    none,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(s.out, newSecret())
			return err
		},
	}
}

// newSecret returns 256 random bits as text.
func newSecret() string { return rand.Text() + rand.Text() }

// A keyMaker is the command "key new".
type keyMaker struct {
	source
	record           identity.KeyRecord
	expires          string
	file, secretFile string
	admin            bool
}

func newKeyNew(s streams) *cobra.Command {
	var k keyMaker
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Make an API key, or a token for the administration",
		Long: `Makes a key of 256 random bits and prints it this once: a key file holds only its
digest. With a configuration, the record goes to the key file that it names. With --file
it goes there. Otherwise it is printed, to be put into a key file by hand.

A running sluice takes the key in when it sees the file change.`,
		Example: `  sluice key new --config sluice.yaml --name "Acme, billing" --tier premium
  sluice key new --file keys --secret-file key-secret --expires 90d
  sluice key new --admin`,
		Args: none,
		RunE: func(*cobra.Command, []string) error {
			if k.admin {
				return newAdminToken(s)
			}
			return k.run(s)
		},
	}
	f := cmd.Flags()
	k.flags(f)
	f.StringVar(&k.record.Name, "name", "", "who has the key, for people")
	f.StringVar(&k.record.Tier, "tier", "", "the `tier` of its caller (default: the configuration's defaultTier)")
	f.StringVar(&k.record.Tenant, "tenant", "", "the account it belongs to")
	f.StringArrayVar(&k.record.Groups, "group", nil, "a further `subject` for rules to match, such as role:batch")
	f.StringVar(&k.expires, "expires", "", "the end of its life: a `time` from now such as 90d or 12h, or a date such as 2027-01-31")
	f.StringVar(&k.file, "file", "", "append the record to this key `file`")
	f.StringVar(&k.secretFile, "secret-file", "", "a `file` with the secret of the digests; it is made if it is not there")
	f.BoolVar(&k.admin, "admin", false, "make a token for the administration instead")
	return cmd
}

func (k *keyMaker) run(s streams) error {
	secret, err := k.secret(s.err)
	if err != nil {
		return err
	}
	if k.expires != "" {
		end, err := parseEnd(k.expires, time.Now())
		if err != nil {
			return usageError{err}
		}
		k.record.Expires = &end
	}
	raw, line, err := identity.NewKey(secret, k.record)
	if err != nil {
		return err
	}
	if k.file == "" {
		fmt.Fprintf(s.err, "This is the key. It is shown this once:\n\n")
		fmt.Fprintln(s.out, raw)
		fmt.Fprintf(s.err, "\nThis line belongs in the key file:\n\n")
		_, err = s.out.Write(line)
		return err
	}
	if err := appendKey(k.file, line, secret); err != nil {
		return err
	}
	fmt.Fprintf(s.err, "This is the key. It is shown this once; %s holds its digest:\n\n", k.file)
	_, err = fmt.Fprintln(s.out, raw)
	return err
}

// secret finds the secret of the digests, and with a configuration the key file too.
func (k *keyMaker) secret(warn io.Writer) ([]byte, error) {
	switch {
	case k.secretFile != "":
		return secretIn(k.secretFile)
	case len(k.files) == 0:
		return nil, usageError{errors.New("the secret of the digests is missing; give --config or --secret-file")}
	}
	cfg, err := k.loadAloud(warn)
	if err != nil {
		return nil, err
	}
	keys := cfg.Identity.APIKeys
	if keys == nil || keys.Secret.IsZero() {
		return nil, fmt.Errorf("%s has no identity.apiKeys.secret, which the digests of keys are made with", &k.source)
	}
	if tier, ok := cfg.Tier(k.record.Tier); k.record.Tier != "" && (!ok || tier.Name != k.record.Tier) {
		return nil, usageError{fmt.Errorf("there is no tier %q; there are %s", k.record.Tier, tierNames(cfg))}
	}
	if k.file == "" {
		k.file = keys.File
	}
	return []byte(keys.Secret.Reveal()), nil
}

func tierNames(cfg *config.Config) string {
	var names []string
	for _, t := range cfg.Tiers {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

// secretIn reads the secret in a file, and makes one if there is no such file.
func secretIn(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if !errors.Is(err, os.ErrNotExist) {
		return []byte(strings.TrimSpace(string(text))), err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	secret := newSecret()
	_, err = f.WriteString(secret + "\n")
	return []byte(secret), errors.Join(err, f.Sync(), f.Close())
}

// appendKey adds a record to a key file, which nobody but its owner can read if it is
// made here. A file that a server could not load gets none: the key would not work.
func appendKey(path string, line, secret []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // written and synced below, or not at all
	if _, err := identity.ReadKeys(f, path, secret); err != nil {
		return err
	}
	if !endsLine(f) {
		line = append([]byte("\n"), line...)
	}
	if _, err := f.Write(line); err != nil { // one write: a reader sees all of it or nothing
		return err
	}
	return f.Sync()
}

// endsLine reports whether a file is empty or ends with a line break.
func endsLine(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err == nil
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] == '\n'
}

// parseEnd reads a span from now, or a date, whose first moment it is in UTC.
func parseEnd(text string, now time.Time) (time.Time, error) {
	now = now.UTC().Truncate(time.Second)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.AddDate(0, 0, int(n)), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(d), nil
	}
	for _, form := range []string{time.DateOnly, time.RFC3339} {
		t, err := time.Parse(form, text)
		switch {
		case err == nil && t.After(now):
			return t.UTC(), nil
		case err == nil:
			return t, fmt.Errorf("%s is past already", text)
		}
	}
	return now, fmt.Errorf("%q is no end of a life; write 90d, 12h, or a date such as 2027-01-31", text)
}

// newAdminToken makes a token for the administration, of which a configuration holds
// the digest.
func newAdminToken(s streams) error {
	token := "sla_" + newSecret()
	fmt.Fprintf(s.err, "This is the token. It is shown this once:\n\n")
	fmt.Fprintln(s.out, token)
	fmt.Fprintf(s.err, "\nThis belongs in the configuration:\n\n")
	_, err := fmt.Fprintf(s.out, "admin: {tokenSha256: %x}\n", sha256.Sum256([]byte(token)))
	return err
}
