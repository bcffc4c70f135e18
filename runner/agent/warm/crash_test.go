package warm_test

func child() int { return 0 }
