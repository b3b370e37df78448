package main

import (
	"fmt"
	"testing"
)

func TestCellsAreAddedUp(t *testing.T) {
	for _, tt := range []struct {
		cells []string
		want  string
	}{
		{[]string{"1/2", "3/4"}, "4/6"},
		{[]string{"0", "12"}, "12"},
		{[]string{"2", "2"}, "4"},
		{[]string{"5m", "5m"}, "5m"},
		{[]string{"5m", "6m"}, "-"},
		{[]string{"1/2", "3"}, "-"},
		{[]string{"3", "<none>"}, "-"},
		{[]string{"<none>", "<none>"}, "<none>"},
		{[]string{"80/TCP", "80/TCP"}, "80/TCP"},
		{[]string{"1/1/1", "1/1/1"}, "1/1/1"},
		{[]string{"a/1", "b/1"}, "-"},
	} {
		if got := added(tt.cells); got != tt.want {
			t.Errorf("added(%q) = %q, want %q", tt.cells, got, tt.want)
		}
	}
}

func TestResourcesAreReadAsKubectlDoes(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"deploy"}, "[{deploy []}]"},
		{[]string{"deploy,svc"}, "[{deploy []} {svc []}]"},
		{[]string{"deploy", "web", "api"}, "[{deploy [web api]}]"},
		{[]string{"deploy,svc", "web"}, "[{deploy [web]} {svc [web]}]"},
		{[]string{"deploy/web", "svc/web", "deploy/api"}, "[{deploy [web api]} {svc [web]}]"},
		{[]string{"deploy/web", "api"}, `"api": after KIND/NAME every argument is one`},
		{[]string{"deploy/"}, `"deploy/": after KIND/NAME every argument is one`},
		{[]string{"deploy/web/x"}, `"deploy/web/x": after KIND/NAME every argument is one`},
		{[]string{"deploy", "svc/web"}, `"svc/web": write KIND/NAME for every argument or for none`},
		{[]string{"deploy,"}, `"deploy,": a kind is missing between the commas`},
	} {
		asked, err := resources(tt.args)
		got := fmt.Sprint(asked)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("resources(%q) = %s, want %s", tt.args, got, tt.want)
		}
	}
}
