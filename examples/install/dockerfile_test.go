package install

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// instruction of a Dockerfile.
type instruction struct{ name, args string }

// dockerfile reads the instructions by stage: continued lines are one, comments none.
func dockerfile(t *testing.T) (stages [][]instruction) {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.ReplaceAll(string(text), "\\\n", " "), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, args, _ := strings.Cut(line, " ")
		if !slices.Contains([]string{"FROM", "ARG", "ENV", "WORKDIR", "COPY", "RUN", "USER", "ENTRYPOINT", "CMD"}, name) {
			t.Fatalf("Dockerfile: %s is an instruction that is not needed", name)
		}
		if name == "FROM" {
			stages = append(stages, nil)
		}
		if len(stages) == 0 {
			t.Fatalf("Dockerfile: %s before FROM", name)
		}
		stages[len(stages)-1] = append(stages[len(stages)-1], instruction{name, args})
	}
	return stages
}

// TestTheImageIsTheProgramAlone holds what is in the image and who runs it.
func TestTheImageIsTheProgramAlone(t *testing.T) {
	stages := dockerfile(t)
	if len(stages) != 2 || stages[1][0].args != "scratch" {
		t.Fatalf("%d stages, and the image begins with %v; want a build, and scratch", len(stages), stages[len(stages)-1][0])
	}
	if !regexp.MustCompile(`^--platform=\$BUILDPLATFORM golang:1\.26@sha256:[0-9a-f]{64} AS build$`).MatchString(stages[0][0].args) {
		t.Errorf("the builder is not pinned: %s", stages[0][0].args)
	}
	got := map[string][]string{}
	for _, i := range stages[1] {
		got[i.name] = append(got[i.name], i.args)
	}
	pod := deployment(t, build(t, "single")).Spec.Template.Spec
	user := fmt.Sprintf("%d:%d", *pod.SecurityContext.RunAsUser, *pod.SecurityContext.RunAsGroup)
	for name, want := range map[string][]string{
		"USER": {user}, "ENTRYPOINT": {`["/godwit"]`}, "RUN": nil,
		"COPY": { // what Go looks for on Linux, and the program
			"--from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt", "--from=build /out/godwit /godwit",
		},
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s %q, want %q", name, got[name], want)
		}
	}
	if pod.Containers[0].Command != nil {
		t.Error("the Deployment replaces the image's entry point")
	}
}

// build commands of the Dockerfile, and their environment.
func buildCommand(t *testing.T) (env, args []string) {
	t.Helper()
	var runs []string
	for _, i := range dockerfile(t)[0] {
		switch i.name {
		case "RUN":
			runs = append(runs, i.args)
		case "ENV":
			env = append(env, strings.Fields(i.args)...)
		}
	}
	if len(runs) != 1 {
		t.Fatalf("the build runs %q, want one command", runs)
	}
	before, command, ok := strings.Cut(runs[0], " go build ")
	if !ok || before != "GOOS=$TARGETOS GOARCH=$TARGETARCH" {
		t.Fatalf("the build runs %s", runs[0])
	}
	for _, m := range regexp.MustCompile(`"([^"]*)"|(\S+)`).FindAllStringSubmatch(command, -1) {
		args = append(args, m[1]+m[2])
	}
	return env, args
}

// TestTheImageIsBuiltTheSameEverywhere holds the flags that make it so, and that Go takes them for our program.
func TestTheImageIsBuiltTheSameEverywhere(t *testing.T) {
	env, args := buildCommand(t)
	for _, flag := range []string{"-trimpath", "-buildvcs=false", "-s -w -buildid= -X main.version=$VERSION"} {
		if !slices.Contains(args, flag) {
			t.Errorf("it is built without %q: %q", flag, args)
		}
	}
	for _, v := range []string{"CGO_ENABLED=0", "GOTOOLCHAIN=local", "GOFLAGS=-mod=readonly"} {
		if !slices.Contains(env, v) {
			t.Errorf("it is built without %s: %q", v, env)
		}
	}
	at := slices.Index(args, "-o")
	if at < 0 || args[at+1] != "/out/godwit" {
		t.Fatalf("the program is not where it is copied from: %q", args)
	}
	list := append([]string{"list", "-f", "{{.Name}} {{.ImportPath}}"}, slices.Delete(slices.Clone(args), at, at+2)...)
	c := exec.Command("go", list...)
	c.Dir, c.Env = "../..", append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if want := "main github.com/godwit-gitops/godwit/cmd/godwit\n"; err != nil || string(out) != want {
		t.Errorf("go %q = %v, %q, want %q", list, err, out, want)
	}
	main, err := os.ReadFile("../../cmd/godwit/main.go")
	if err != nil || !regexp.MustCompile(`(?m)^var version = `).Match(main) {
		t.Errorf("there is no variable main.version to set: %v", err)
	}
	ignored, err := os.ReadFile("Dockerfile.dockerignore")
	if err != nil || string(ignored) != ".git\nbin\n" {
		t.Errorf("what is left out of the build is %q: %v", ignored, err)
	}
}
