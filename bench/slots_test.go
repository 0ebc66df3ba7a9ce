package bench

import "testing"

// BenchmarkSlots/<mode>/<row> takes a slot and gives it back; there are always
// enough. serial is one goroutine (run with -cpu 1), par one a processor.
func BenchmarkSlots(b *testing.B) {
	rows := find(func(c contestant) bool { return c.slots != nil })
	b.Run("serial", func(b *testing.B) {
		for _, c := range rows {
			b.Run(c.name, func(b *testing.B) {
				hold := c.slots(b, 1<<20)()
				b.ReportAllocs()
				for b.Loop() {
					if !hold() {
						b.Fatal("refused a slot that was free")
					}
				}
			})
		}
	})
	b.Run("par", func(b *testing.B) {
		for _, c := range rows {
			b.Run(c.name, func(b *testing.B) {
				seat := c.slots(b, 1<<20)
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for hold := seat(); pb.Next(); {
						if !hold() {
							b.Error("refused a slot that was free")
						}
					}
				})
			})
		}
	})
}
