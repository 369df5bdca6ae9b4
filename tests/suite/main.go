// Kubernetes' own end-to-end specs, those that ask something of the API server alone, as one program.
//
// In: a kubeconfig, and a file that names the specs to run, one full text a line. Out: one line of JSON as each spec begins and
// one as it ends, so that who supervises this knows which spec hangs and can go on without it.
//
//	suite --kubeconfig FILE --specs FILE --results FILE [flags of the e2e framework]
//	suite --list
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/testinit"
	commontest "k8s.io/kubernetes/test/e2e/common"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	manifests "k8s.io/kubernetes/test/e2e/testing-manifests"
	fixtures "k8s.io/kubernetes/test/fixtures"
	"k8s.io/utils/net"

	// The specs.
	_ "k8s.io/kubernetes/test/e2e/apimachinery"
	_ "k8s.io/kubernetes/test/e2e/apps"
	_ "k8s.io/kubernetes/test/e2e/auth"
	_ "k8s.io/kubernetes/test/e2e/instrumentation"
	_ "k8s.io/kubernetes/test/e2e/network"
	_ "k8s.io/kubernetes/test/e2e/node"
	_ "k8s.io/kubernetes/test/e2e/scheduling"

	// How failures are printed.
	_ "k8s.io/kubernetes/test/utils/format"
)

// What runs is named in a file; the rest of ginkgo's selection is not used.
var (
	list    = flag.Bool("list", false, "print the full text of every spec, and end")
	specs   = flag.String("specs", "", "a file with the full text of each spec that is to run, one a line")
	results = flag.String("results", "", "the file that outcomes are appended to, as lines of JSON")
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	testfiles.AddFileSource(manifests.GetE2ETestingManifestsFS())
	testfiles.AddFileSource(fixtures.GetTestFixturesFS())
	commontest.CurrentSuite = commontest.E2E
	if *list {
		for _, spec := range ginkgo.PreviewSpecs("all").SpecReports {
			if spec.LeafNodeType == types.NodeTypeIt {
				fmt.Println(spec.FullText())
			}
		}
		return nil
	}
	focus, err := named(*specs)
	if err != nil {
		return err
	}
	logs.InitLogs()
	framework.AfterReadingAllFlags(&framework.TestContext)
	// Not before: the framework has just gone through every spec without running it.
	if err := record(*results); err != nil {
		return err
	}
	gomega.RegisterFailHandler(framework.Fail)
	suite, reporter := ginkgo.GinkgoConfiguration()
	suite.FocusStrings = []string{focus}
	reporter.Succinct, reporter.NoColor = true, true
	ginkgo.RunSpecs(outcomes{}, suiteName, suite, reporter)
	return nil
}

const suiteName = "suite"

// outcomes are read from the results: a spec that fails is no failure of this program.
type outcomes struct{}

func (outcomes) Fail() {}

// named is the pattern of exactly those specs that a file names.
func named(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var names []string
	for _, name := range strings.Split(string(text), "\n") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, regexp.QuoteMeta(name))
		}
	}
	return fmt.Sprintf("^%s (?:%s)$", suiteName, strings.Join(names, "|")), nil
}

// What the framework's own suite looks up before its specs.
var _ = ginkgo.BeforeSuite(func(ctx context.Context) {
	client, err := framework.LoadClientset()
	framework.ExpectNoError(err)
	service, err := client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	framework.ExpectNoError(err)
	framework.TestContext.IPFamily = "ipv4"
	if net.IsIPv6String(service.Spec.ClusterIP) {
		framework.TestContext.IPFamily = "ipv6"
	}
})
