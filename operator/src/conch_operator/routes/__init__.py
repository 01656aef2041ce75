"""From a ModelDeployment and the facts of its folder to the route that the data plane reads. Pure."""
