// The clients that people use, driven against one API server: client-go and
// controller-runtime, Argo CD's engine and Flux's apply.
//
//	clients KUBECONFIG client-go|gitops-engine|flux-ssa [CHECK]...
//	clients codec make|compare
//
// Each check works in a namespace of its own, prints one line, and the
// program fails where one does. Without names all checks of the subcommand
// run. Where the server is no hub, what only a hub has is left out.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// patience is how long anything that happens at all may take on a busy machine.
const patience = 60 * time.Second

// check is one thing that must work.
type check struct {
	name string
	run  func(ctx context.Context, t *target) error
}

// target is the server, and the check's own place in it.
type target struct {
	config    *rest.Config
	typed     kubernetes.Interface
	dynamic   dynamic.Interface
	namespace string
	hub       bool
}

var subcommands = map[string][]check{
	"client-go":     clientGo,
	"gitops-engine": gitops,
	"flux-ssa":      flux,
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == "codec" {
		runCodec(os.Args[2:])
		return
	}
	if len(os.Args) < 3 {
		fail("usage: clients KUBECONFIG client-go|gitops-engine|flux-ssa [CHECK]...")
	}
	checks, known := subcommands[os.Args[2]]
	if !known {
		fail("%s: there is no such subcommand", os.Args[2])
	}
	for _, name := range os.Args[3:] {
		if !slices.ContainsFunc(checks, func(c check) bool { return c.name == name }) {
			fail("%s: there is no such check of %s", name, os.Args[2])
		}
	}
	// Clients that keep discovery on disk begin with none.
	cacheDir, err := os.MkdirTemp("", "clients-")
	if err != nil {
		fail("%v", err)
	}
	os.Setenv("KUBECACHEDIR", cacheDir)
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		fail("%v", err)
	}
	// The checks are many in one process: none is to wait for another's tokens.
	config.QPS, config.Burst = 500, 1000
	config.WarningHandler = rest.NoWarnings{}
	// What clients log while they try again is no failure; with CLIENTS_VERBOSE it is shown.
	if os.Getenv("CLIENTS_VERBOSE") == "" {
		klog.SetLogger(logr.Discard())
	}
	ctrllog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(logOutput()))))
	bad := 0
	for _, c := range checks {
		if len(os.Args) > 3 && !slices.Contains(os.Args[3:], c.name) {
			continue
		}
		started := time.Now()
		if err := runOne(config, c); err != nil {
			bad++
			fmt.Printf("failed: %s: %v\n", c.name, err)
		} else {
			fmt.Printf("ok: %s (%.1f s)\n", c.name, time.Since(started).Seconds())
		}
	}
	os.RemoveAll(cacheDir)
	if bad > 0 {
		fail("%d checks of %s failed", bad, os.Args[2])
	}
}

func runOne(config *rest.Config, c check) (err error) {
	// A client that panics on an answer is a failure like any other.
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	t, err := newTarget(ctx, config, c.name)
	if err != nil {
		return err
	}
	return c.run(ctx, t)
}

func newTarget(ctx context.Context, config *rest.Config, name string) (*target, error) {
	config = rest.CopyConfig(config)
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	_, err = typed.Discovery().ServerResourcesForGroupVersion("policy.karmada.io/v1alpha1")
	t := &target{config: config, typed: typed, dynamic: untyped, hub: err == nil}
	t.namespace, err = t.newNamespace(ctx, name)
	return t, err
}

// newNamespace makes one whose name begins with the check's.
func (t *target) newNamespace(ctx context.Context, name string) (string, error) {
	wanted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: strings.ReplaceAll(name, " ", "-") + "-"}}
	made, err := t.typed.CoreV1().Namespaces().Create(ctx, wanted, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("creating a namespace: %w", err)
	}
	return made.Name, nil
}

// eventually looks until look answers nil; its last error is the failure's text.
func eventually(ctx context.Context, what string, look func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := look()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("waited for %s; last seen: %w", what, err)
		}
		time.Sleep(30 * time.Millisecond)
	}
}

// want fails where a condition does not hold.
func want(condition bool, format string, args ...any) error {
	if condition {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// first is the first error of several.
func first(errors ...error) error {
	for _, err := range errors {
		if err != nil {
			return err
		}
	}
	return nil
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

type discard struct{}

func (discard) Write(bytes []byte) (int, error) { return len(bytes), nil }

func logOutput() interface{ Write([]byte) (int, error) } {
	if os.Getenv("CLIENTS_VERBOSE") != "" {
		return os.Stderr
	}
	return discard{}
}

func ptr[T any](value T) *T { return &value }
