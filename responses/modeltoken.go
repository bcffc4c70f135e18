package responses

// HeaderModelToken carries, beside the body of a request that runs a turn, the
// token with which this turn may ask models through the host's gateway and call the
// host's tools. It is used while the turn runs and kept nowhere.
const HeaderModelToken = "Holon-Model-Token"
