package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WriteKubeconfig writes a kubeconfig for a bearer token, and returns the file. The server may be another URL than the API
// server's, such as a proxy's, whose certificate is the cluster Authority's.
func (c *Cluster) WriteKubeconfig(name, server, token string) (string, error) {
	file := c.file(name + ".kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: %[1]s
clusters: [{name: test, cluster: {server: %[2]q, certificate-authority-data: %[3]s}}]
users: [{name: %[1]s, user: {token: %[4]q}}]
contexts: [{name: %[1]s, context: {cluster: test, user: %[1]s}}]
`, name, server, base64.StdEncoding.EncodeToString(c.Authority.PEM), token)
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// AccountKubeconfig writes a kubeconfig for a service account, which it makes when it is missing, and returns the file.
func (c *Cluster) AccountKubeconfig(ctx context.Context, namespace, account string) (string, error) {
	token, err := c.AccountToken(ctx, namespace, account)
	if err != nil {
		return "", err
	}
	return c.WriteKubeconfig(namespace+"-"+account, c.Server, token)
}

// AccountToken is a token of a service account, valid for a day. The account is made when it is missing.
func (c *Cluster) AccountToken(ctx context.Context, namespace, account string) (string, error) {
	accounts := c.client.CoreV1().ServiceAccounts(namespace)
	_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	day := int64(24 * 60 * 60)
	request := &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{ExpirationSeconds: &day}}
	if request, err = accounts.CreateToken(ctx, account, request, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("token of %s/%s: %w", namespace, account, err)
	}
	return request.Status.Token, nil
}

// Namespace makes a namespace and waits until Pods can be made in it.
func (c *Cluster) Namespace(ctx context.Context, name string) error {
	_, err := c.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return c.waitForAccount(ctx, name)
}

// waitForAccount waits for what the controllers put into every namespace, which Pods need.
func (c *Cluster) waitForAccount(ctx context.Context, namespace string) error {
	return Wait(ctx, "the default service account of "+namespace, func(ctx context.Context) (bool, error) {
		_, err := c.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			_, err = c.client.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		}
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}
