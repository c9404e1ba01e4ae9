package awssim

func (s *Sim) ec2Operations() map[string]operation { return map[string]operation{} }
func (s *Sim) stsOperations() map[string]operation { return map[string]operation{} }

func ec2ErrorBody(c *call, e *APIError) []byte { return nil }
