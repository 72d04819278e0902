"""What the service adds to requests that read: HEAD, and pages of other origins."""
