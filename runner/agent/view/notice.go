package view

import (
	"holon/state/ledger"
)

// Notice is a notification of the operator, and what became of its deliveries outside of this host.
type Notice struct {
	Notification ledger.Notification `json:"notification"`
	Deliveries   []ledger.Delivery   `json:"deliveries"`
}

// NoticeList are the newest notices of an agent, the oldest first.
type NoticeList struct {
	Object string   `json:"object"` // list
	Data   []Notice `json:"data"`
}

// Notices lists what the operator was notified of.
func (s Snapshot) Notices(agentID string, limit int) (NoticeList, error) {
	if _, err := s.shown(agentID); err != nil {
		return NoticeList{}, err
	}
	found, err := s.ledger.Notifications(agentID, clamp(limit))
	out := NoticeList{Object: "list", Data: make([]Notice, 0, len(found))}
	for _, n := range found {
		deliveries, err := s.ledger.DeliveriesOf(n.ID)
		if err != nil {
			return out, err
		}
		out.Data = append(out.Data, Notice{Notification: n, Deliveries: list(deliveries)})
	}
	return out, err
}

// Bindings lists the bindings of the operator's transports to an agent, by id.
func (s Snapshot) Bindings(agentID string) ([]ledger.OperatorBinding, error) {
	if _, err := s.shown(agentID); err != nil {
		return nil, err
	}
	found, err := s.ledger.OperatorBindings(agentID)
	return list(found), err
}
