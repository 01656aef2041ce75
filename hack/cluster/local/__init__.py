"""A real one-node Kubernetes on this machine: the real components as processes, in seconds, without a registry.

etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy, kubelet, containerd, runc and CNI bridge,
with CoreDNS, and Traefik as ingress on http://127.0.0.1:8080 and https://127.0.0.1:8443. `local_cluster` is the way in;
`layout` knows every path, address and port; `recipe/` builds the binaries.
"""
