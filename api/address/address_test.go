package address

import (
	"net/netip"
	"net/url"
	"testing"

	"pgregory.net/rapid"
)

func TestOutOfBounds(t *testing.T) {
	for _, test := range []struct {
		ip   string
		want bool
	}{
		{"169.254.169.254", true},
		{"169.254.0.0", true},
		{"::ffff:169.254.169.254", true},
		{"64:ff9b::169.254.169.254", true},
		{"64:ff9b::a9fe:a9fe", true},
		{"fe80::1", true},
		{"fe80::1%eth0", true},
		{"fd00:ec2::254", true},
		{"fd00:ec2::254%eth0", true},
		{"100.100.100.200", true},
		{"168.63.129.16", true},
		{"224.0.0.1", true},
		{"ff02::1", true},
		{"0.0.0.0", true},
		{"::", true},
		{"169.253.255.255", false},
		{"169.255.0.0", false},
		{"100.100.100.201", false},
		{"127.0.0.1", false},
		{"10.0.0.1", false},
		{"192.168.1.1", false},
		{"64:ff9b::10.0.0.1", false},
		{"fd00:ec2::253", false},
		{"2001:db8::1", false},
	} {
		if got := OutOfBounds(netip.MustParseAddr(test.ip)); got != test.want {
			t.Errorf("OutOfBounds(%s) = %t, want %t", test.ip, got, test.want)
		}
	}
}

// An address is in or out of bounds however it is written.
func TestNoSpellingGetsAround(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address"))
		if rapid.Bool().Draw(t, "link-local") {
			b[0], b[1] = 169, 254
		}
		ip := netip.AddrFrom4(b)
		mapped := netip.AddrFrom16(ip.As16())
		translated := netip.MustParsePrefix("64:ff9b::/96").Addr().As16()
		copy(translated[12:], b[:])
		for _, other := range []netip.Addr{mapped, mapped.WithZone("eth0"), netip.AddrFrom16(translated)} {
			if OutOfBounds(other) != OutOfBounds(ip) {
				t.Errorf("%s is %t, and %s is not", ip, OutOfBounds(ip), other)
			}
		}
	})
}

func TestListed(t *testing.T) {
	hosts := []string{"a.example.com", "b.example.com:8443", "c.example.com:443", "d.example.com:80", "::1", "[::2]:6443"}
	for at, want := range map[string]bool{
		"https://a.example.com": true, "https://a.example.com:1": true, "https://b.example.com": false, "https://b.example.com:8443": true,
		"https://c.example.com": true, "http://c.example.com": false, "http://d.example.com": true, "socks5://d.example.com": false,
		"https://[::1]:5": true, "https://[::2]:6443": true, "https://[::2]": false, "https://x.a.example.com": false, "https://a.example.com.evil": false, "https://u:a.example.com@evil": false, "https:": false,
	} {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		if got := Listed(u, hosts); got != want {
			t.Errorf("Listed(%s) = %t, want %t", at, got, want)
		}
		if !Listed(u, nil) {
			t.Errorf("without a list %s is refused", at)
		}
	}
}
