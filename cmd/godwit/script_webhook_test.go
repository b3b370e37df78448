package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	configv1alpha1 "github.com/godwit-gitops/godwit/api/config/v1alpha1"
)

// interpreter is a webhook for the kind Cache, whose replicas are in spec.size, which needs the ConfigMap
// spec.config, and is healthy without the label sick.
type interpreter struct {
	mu   sync.Mutex
	mood string
	stop chan struct{} // closed when the mood changes
}

// interpreterMoods are what a webhook can be like, besides up.
var interpreterMoods = map[string]func(w http.ResponseWriter, r *http.Request, stop <-chan struct{}){
	"down": func(w http.ResponseWriter, _ *http.Request, _ <-chan struct{}) {
		w.WriteHeader(http.StatusServiceUnavailable)
	},
	"hang": func(_ http.ResponseWriter, r *http.Request, stop <-chan struct{}) {
		io.Copy(io.Discard, r.Body)
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	},
	"hostile": func(w http.ResponseWriter, _ *http.Request, _ <-chan struct{}) {
		fmt.Fprint(w, `{"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "response": {"uid": "x", "successful": true, "replicas": 1000000}}`)
	},
}

func (w *world) interpret(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: interpreter up|down|hang|hostile [FILE...]")
	}
	if w.interpreter == nil {
		w.interpreter = &interpreter{stop: make(chan struct{})}
		server := httptest.NewUnstartedServer(w.interpreter)
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		w.tb.Cleanup(func() {
			w.interpreter.be("down")
			server.Close()
		})
		ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
		for _, name := range args[1:] {
			text := strings.NewReplacer("HOOK_URL", server.URL, "HOOK_CA", ca).Replace(ts.ReadFile(name))
			if err := os.WriteFile(ts.MkAbs(name), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	w.interpreter.be(args[0])
	return nil
}

func (i *interpreter) be(mood string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	close(i.stop)
	i.mood, i.stop = mood, make(chan struct{})
}

func (i *interpreter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	mood, stop := interpreterMoods[i.mood], i.stop
	i.mu.Unlock()
	if mood != nil {
		mood(w, r, stop)
		return
	}
	var sent configv1alpha1.ResourceInterpreterContext
	var o struct {
		Metadata struct{ Labels map[string]string }
		Spec     struct {
			Size   int32
			Config string
		}
	}
	err := json.NewDecoder(r.Body).Decode(&sent)
	if err == nil {
		err = json.Unmarshal(sent.Request.Object.Raw, &o)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q := sent.Request
	a := &configv1alpha1.ResourceInterpreterResponse{UID: q.UID, Successful: true}
	switch q.Operation {
	case "InterpretReplica":
		a.Replicas = &o.Spec.Size
	case "ReviseReplica":
		a.PatchType = configv1alpha1.PatchTypeJSONPatch
		a.Patch = fmt.Appendf(nil, `[{"op": "replace", "path": "/spec/size", "value": %d}]`, *q.DesiredReplicas)
	case "InterpretHealth":
		healthy := o.Metadata.Labels["sick"] == ""
		a.Healthy = &healthy
	case "InterpretDependency":
		a.Dependencies = []configv1alpha1.DependentObjectReference{{APIVersion: "v1", Kind: "ConfigMap", Namespace: q.Namespace, Name: o.Spec.Config}}
	default:
		a.Successful, a.Status = false, &configv1alpha1.RequestStatus{Message: "no such operation", Code: http.StatusBadRequest}
	}
	sent.Request, sent.Response = nil, a
	json.NewEncoder(w).Encode(sent)
}
