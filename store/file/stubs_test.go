package file_test
func loadUntilKilled(path string) error {return nil}
func raceForLock(path string) error {return nil}
func fillTheDisk(path string) error {return nil}
func holdTheStore(path string) error {return nil}
