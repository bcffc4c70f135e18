package record

// Keys of an event's data that hold a copy of the record that it is about, as it was then.
const (
	RecordWait    = "wait_condition"   // a ledger.Wait
	RecordTimer   = "timer"            // a ledger.Timer
	RecordTrigger = "external_trigger" // a ledger.Trigger
	RecordWork    = "work_item"        // a ledger.WorkItem
	RecordTask    = "task"             // a ledger.Task without its output
)
