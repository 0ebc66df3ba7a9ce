package file

import "testing"

// TestNetworkShares asks about the text that the kernel gives of mounts. A share itself
// cannot be mounted in a test.
func TestNetworkShares(t *testing.T) {
	const mounts = `36 35 0:32 / /mnt/remote rw,relatime shared:1 - fuse.sshfs user@host:/ rw,user_id=0
37 35 0:33 / /mnt/bucket rw,relatime - fuse.s3fs s3fs rw
38 35 0:34 / /mnt/crypt rw,relatime - fuse.gocryptfs /crypt rw
39 35 8:1 / / rw,relatime - ext4 /dev/sda1 rw
`
	for _, c := range []struct{ device, want string }{
		{"0:32", "fuse.sshfs"}, {"0:33", "fuse.s3fs"}, {"0:34", ""}, {"8:1", ""}, {"9:9", ""},
	} {
		if got := fuseShare(mounts, c.device); got != c.want {
			t.Errorf("%s: %q, want %q", c.device, got, c.want)
		}
	}
	for magic, want := range map[int64]string{0x6969: "NFS", 0xff534d42: "CIFS", 0xfe534d42: "SMB", 0xef53: ""} {
		if got := shares[magic]; got != want {
			t.Errorf("%#x: %q, want %q", magic, got, want)
		}
	}
	if got := networkShare(t.TempDir()); got != "" {
		t.Errorf("the test's own directory is on %s", got)
	}
}
