"""What Conch's own processes send each other over HTTP; clients never see these types."""
