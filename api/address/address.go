// Package address tells the addresses that no server of anybody's has, and those that a list has.
package address

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// secrets are unicast addresses, besides the link-local ones, at which clouds hand a machine's credentials to whoever asks.
var secrets = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),   // Amazon
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("168.63.129.16"),   // Azure
}

// nat64 is how addresses of IPv4 are reached where there is IPv6 alone.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// OutOfBounds tells whether nothing is ever to be asked of the address: link-local ones and a few more, where clouds keep
// secrets of the machine, and those of no single machine. However an address of IPv4 is written, it is the same one.
func OutOfBounds(ip netip.Addr) bool {
	ip = plain(ip)
	if ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() {
		return true
	}
	for _, s := range secrets {
		if ip == s {
			return true
		}
	}
	return false
}

// plain is the address without a zone, and that of IPv4 in it.
func plain(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if nat64.Contains(ip) {
		b := ip.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return ip
}

// Listed tells whether the host of a URL is in a list of "host" and "host:port". An empty list has all of them.
func Listed(u *url.URL, hosts []string) bool {
	port := u.Port()
	if port == "" {
		port = ports[u.Scheme]
	}
	host := u.Hostname()
	at := host + ":" + port
	if strings.Contains(host, ":") {
		at = "[" + host + "]:" + port
	}
	return len(hosts) == 0 || slices.Contains(hosts, host) || slices.Contains(hosts, at)
}

// ports are those of URLs that name none.
var ports = map[string]string{"https": "443", "http": "80", "socks5": "1080"}
